"""Why a draw became a task or did not. One code a draw; their counts are the attrition table."""

from enum import StrEnum


class Reason(StrEnum):
    """In the order of the gates."""

    KEPT = "kept"
    # what a reply can do wrong
    REFUSED = "refused"
    TRUNCATED = "truncated"
    UNPARSABLE = "unparsable"
    # describe
    LEAK = "leak"
    # environment
    INITIAL_TEST_INVALID = "initial_test_invalid"
    BUILD_FAILED = "build_failed"
    BUILD_TIMEOUT = "build_timeout"
    INITIAL_TEST_FAILED = "initial_test_failed"
    # final test
    FINAL_TEST_INVALID = "final_test_invalid"
    FINAL_TEST_PASSES_UNTOUCHED = "final_test_passes_untouched"
    ORACLE_FAILED = "oracle_failed"
    # the set as a whole
    NEAR_DUPLICATE = "near_duplicate"
    CONTAMINATED = "contaminated"
    # nobody's fault
    INFRA = "infra"


MEANING = {
    Reason.KEPT: "a verified task",
    Reason.REFUSED: "the model refused to write it",
    Reason.TRUNCATED: "the reply was cut at the token limit",
    Reason.UNPARSABLE: "the reply lacks a section, repeats one, or leaves one empty",
    Reason.LEAK: "the instruction gives away a line of the hidden truth",
    Reason.INITIAL_TEST_INVALID: "the initial-state test is not runnable Python with at least one test",
    Reason.BUILD_FAILED: "the environment does not build",
    Reason.BUILD_TIMEOUT: "the environment does not build in time",
    Reason.INITIAL_TEST_FAILED: "the built environment is not as its own test expects",
    Reason.FINAL_TEST_INVALID: "the final test breaks instead of failing by an assertion",
    Reason.FINAL_TEST_PASSES_UNTOUCHED: "the final test passes with nothing done",
    Reason.ORACLE_FAILED: "the reference solution does not pass the final test",
    Reason.NEAR_DUPLICATE: "almost the same instruction as an earlier task",
    Reason.CONTAMINATED: "almost the same instruction as a benchmark's task",
    Reason.INFRA: "lost to infrastructure trouble; not the task's fault",
}
"""One line each, for people."""
