"""Near-duplicates."""

from runner.analysis.dedupe import SimilarityIndex, find_duplicates, jaccard, shingles

TEXT = (
    "Read the access log in /var/log/app, count how often each status code occurs, and write the counts "
    "to /home/user/report.csv with a header line, highest count first."
)


def test_a_text_with_one_word_changed_is_a_near_duplicate_and_the_first_one_stays():
    other = TEXT.replace("highest", "largest")
    found = list(find_duplicates([("a", TEXT), ("b", "Something else entirely, about git tags."), ("c", other)], 0.7))
    assert [(key, twin) for key, twin, _ in found] == [("c", "a")]


def test_a_duplicate_of_a_duplicate_is_measured_against_kept_texts_only():
    found = list(find_duplicates([("a", TEXT), ("b", TEXT), ("c", TEXT)], 0.9))
    assert [(key, twin) for key, twin, _ in found] == [("b", "a"), ("c", "a")]


def test_the_index_decides_by_the_exact_similarity():
    index = SimilarityIndex(0.8)
    index.add("a", TEXT)
    near = " ".join(TEXT.split()[:-8])
    similarity = jaccard(shingles(TEXT), shingles(near))
    assert (index.nearest(near) is not None) == (similarity >= 0.8)
    assert index.nearest(TEXT) == ("a", 1.0)


def test_short_texts_have_one_shingle():
    assert shingles("Two words") == frozenset({"two words"})
