"""What Harbor's exceptions mean for a score: which trials count, and which are nobody's failure.

Harbor keeps such a table itself (``harbor/models/trial/error_policy.py`` of 0.26: ``has_valid_reward``); this one says
the same of every name in it, with a reason, except that a name unknown to both never counts. Where the agent's or the
model's own doing ended an episode (its time was up, its context full), the verifier still runs, and its word counts.
"""

from collections.abc import Mapping

COUNTS: Mapping[str, str] = {
    "AgentTimeoutError": "the agent's time was up",
    "NonZeroAgentExitCodeError": "the agent's program failed",
    "ContextWindowExceededError": "the model's context was full",
    "ContextLengthExceededError": "the model's context was full",
    "OutputTokenExceededError": "a reply was cut at its token limit",
    "OutputLengthExceededError": "a reply was cut at its token limit",
    "AgentSafetyRefusalError": "the model refused",
    "ContentPolicyViolationError": "the model refused",
}
"""After these the verifier's reward counts."""

_ENVIRONMENT = "the environment failed"
_PROVIDER = "the model's provider failed"
_REFUSED = "the model's provider refused the request"
_VERIFIER = "the verifier failed"
_SETTINGS = "the job's settings are wrong"
_SETUP = "the agent could not be set up"
SPENT = "the recipe's budget is spent"

INFRA: Mapping[str, str] = {
    "EnvironmentStartTimeoutError": _ENVIRONMENT,
    "SandboxBuildFailedError": "the environment does not build",
    "HealthcheckError": _ENVIRONMENT,
    "SandboxLikelyOutOfMemoryError": _ENVIRONMENT,
    "MemoryLimitExceededError": _ENVIRONMENT,
    "SSHAccessError": _ENVIRONMENT,
    "GKEExecStreamClosedError": _ENVIRONMENT,
    "GKEPodNotFoundError": _ENVIRONMENT,
    "RuntimeRequestError": _ENVIRONMENT,
    "ServiceOperationsUnsupportedError": _ENVIRONMENT,
    "VercelScopeError": _ENVIRONMENT,
    "RuntimeError": "the environment failed, or something that Harbor has no name for",
    "EngineError": _ENVIRONMENT,
    "EngineGone": _ENVIRONMENT,
    "StorageError": "a disk is full or read-only",
    "UnavailableDatasetTasksError": "the registry failed",
    "EmptyDatasetError": "the registry failed",
    "AgentSetupTimeoutError": _SETUP,
    "MissingExtraError": _SETUP,
    "DspyImportError": _SETUP,
    "AddTestsDirError": _VERIFIER,
    "DownloadVerifierDirError": _VERIFIER,
    "VerifierTimeoutError": "the verifier's time was up",
    "RewardFileNotFoundError": "the verifier wrote no reward",
    "RewardFileEmptyError": "the verifier wrote no reward",
    "VerifierOutputParseError": "the verifier wrote no reward",
    "RegradeError": _VERIFIER,
    "ProviderError": _PROVIDER,
    "ApiError": _PROVIDER,
    "ApiRateLimitError": _PROVIDER,
    "ApiInternalServerError": _PROVIDER,
    "ApiOverloadedError": _PROVIDER,
    "ApiConnectionClosedError": _PROVIDER,
    "ApiConnectionError": _PROVIDER,
    "ApiResponseStalledError": _PROVIDER,
    "UnknownApiError": _PROVIDER,
    "NetworkConnectionError": _PROVIDER,
    "ApiUsageLimitError": _PROVIDER,
    "RateLimitError": _PROVIDER,
    "InternalServerError": _PROVIDER,
    "ServiceUnavailableError": _PROVIDER,
    "APIConnectionError": _PROVIDER,
    "APIError": _PROVIDER,
    "Timeout": _PROVIDER,
    "UnsupportedModelParametersError": _REFUSED,
    "BadRequestError": _REFUSED,
    "UnprocessableEntityError": _REFUSED,
    "UnsupportedParamsError": _REFUSED,
    "APIResponseValidationError": _REFUSED,
    "BudgetExceededError": _REFUSED,
    "AgentAuthenticationError": _REFUSED,
    "AuthenticationError": _REFUSED,
    "PermissionDeniedError": _REFUSED,
    "ModelNotFoundError": _SETTINGS,
    "ApiProviderResourceNotFoundError": _SETTINGS,
    "NotFoundError": _SETTINGS,
    "MissingRequirement": _SETTINGS,
    "RecipeError": _SETTINGS,
    "ReplayMiss": "the recording has no reply",
    "BudgetExceeded": SPENT,
    "CancelledError": "the job was stopped",
}
"""After these there is no score. ``RuntimeError`` is what Harbor's Docker environment raises for all its trouble."""

USERS = ("MissingRequirement", "RecipeError")
"""What our agent raises for a mistake of the user's: every trial of the job will meet it."""
_TRIED_AGAIN = ("EngineError", "EngineGone", "ProviderError", "StorageError")

POLICY: Mapping[str, Mapping[str, bool]] = {
    name: {"should_retry": name in _TRIED_AGAIN, "should_grade": False, "has_valid_reward": False}
    for name in (*_TRIED_AGAIN, *USERS, "ReplayMiss", "BudgetExceeded")
}
"""What Harbor is told of our agent's exceptions, which its own table does not know (``override_error_policy``)."""

UNKNOWN = "not in the table of Harbor's exceptions, so it does not count"


def counts(exception: str) -> bool:
    """Whether a trial with this exception has a score, given that its verifier has spoken."""
    return exception in COUNTS


def reason(exception: str) -> str:
    """What an exception means, in a few words."""
    return COUNTS.get(exception) or INFRA.get(exception, UNKNOWN)
