"""Does an instruction give the truth away?"""

import pytest

from runner.phases.generate.leak import leaked_line


@pytest.mark.parametrize(
    ("instruction", "truth"),
    [
        ("Write `total=4812 over 7 days` into it.", "total=4812 over 7 days"),
        ("The answer is: 192.168.7.14   failed 23 times!", "192.168.7.14 failed 23 times"),
        ("It must read\n\nALPHA beta\ngamma delta.", "alpha BETA gamma delta"),
    ],
)
def test_a_truth_line_word_for_word_is_a_leak(instruction, truth):
    assert leaked_line(instruction, truth) == truth.strip()


@pytest.mark.parametrize(
    ("instruction", "truth"),
    [
        ("Count the lines and write the number.", "42"),
        ("Write the result to /home/user/out/report.csv.", "/home/user/out/report.csv"),
        ("Count the failed logins by address.", "failed logins: 23 by 192.168.7.14"),
        ("Sort it.", ""),
        ("the concatenation of words", "cat of word longer"),
    ],
)
def test_paths_short_facts_and_paraphrases_are_not(instruction, truth):
    assert leaked_line(instruction, truth) is None
