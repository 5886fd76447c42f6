"""Our agent inside OpenRLHF's rollout workers: token ids in, token ids out, and a sandbox per live episode.

``agent_func.py`` is the file that OpenRLHF loads. Everything else is importable without OpenRLHF, torch and vLLM.
"""
