"""Recipes of the user's own, anywhere on disk."""

from pathlib import Path

import pytest

from runner.compose import compose, variants
from runner.domain.errors import RecipeError


@pytest.mark.parametrize("name", ["mine.yaml", "a folder/my recipe.yaml", "quickstart.yaml", "it's=odd, [1].yaml"])
def test_a_file_with_any_name_is_a_recipe(write, name):
    path = write("defaults:\n  - /recipes/quickstart\nname: own\nseed: 5\n", name)
    config = compose(path)
    assert (config.name, config.seed, config.generate.draws) == ("own", 5, 12)


def test_a_relative_path_works(write, monkeypatch):
    folder = Path(write("name: own\n")).parent
    monkeypatch.chdir(folder)
    assert compose("./mine.yaml").name == compose("mine.yaml").name == "own"


def test_a_recipe_may_build_on_its_neighbour(write):
    write("seed: 41\nname: base\n", "_base.yaml")
    config = compose(write("defaults: [_base]\nname: top\n"))
    assert (config.name, config.seed) == ("top", 41)


def test_groups_beside_the_file_extend_ours(write):
    write("dimensions: {planet: {values: {mars: 1}}}\n", "taxonomy/space.yaml", header="")
    config = compose(write("defaults:\n  - override /taxonomy: space\nname: own\n"))
    assert list(config.taxonomy.dimensions) == ["planet"]
    assert compose(write("name: own\n"), ["taxonomy=space"]).taxonomy == config.taxonomy


def test_a_folder_beside_the_file_never_shadows_a_key(write):
    (Path(write("name: own\n")).parent / "outputs").mkdir()
    assert compose(write("name: own\n"), ["outputs=elsewhere"]).outputs == "elsewhere"


def test_recordings_beside_the_file_are_found(write):
    folder = Path(write("name: own\nmodels: {generator: {replay: recs}}\n")).parent
    (folder / "recs").mkdir()
    models = compose(str(folder / "mine.yaml")).models
    assert models.generator.replay == str(folder / "recs")
    assert models.solver.replay == "recordings/quickstart"


def test_an_own_sweep_works(write):
    path = write("name: own\nhydra:\n  mode: MULTIRUN\n  sweeper:\n    params:\n      filter.n: 2,3\n")
    assert [config.filter.n for config, _ in variants([path])] == [2, 3]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("name: own\nfliter: {n: 3}\n", "unknown key fliter; did you mean filter?"),
        ("name: own\nfilter: {nn: 3}\n", "unknown key filter.nn; did you mean filter.n?"),
        ("name: own\nfilter: {n: many}\n", "filter.n is 'many', but wants a whole number"),
        ("name: own\nfilter: 3\n", "filter"),
        ("seed: 1\n", "name must be set"),
        (
            "name: own\ndefaults:\n  - override /sandbox: dockr\n",
            "the group sandbox has no 'dockr'; did you mean docker?",
        ),
        ("name: own\ndefaults:\n  - override /sandbx: docker\n", "unknown key sandbx; did you mean sandbox?"),
        ("name: own\ndefaults:\n  - /recipes/quikstart\n", "no recipe 'quikstart'; did you mean quickstart?"),
        ("name: [\n", "not valid YAML: .*line 3"),
        ("- name\n", "recipe"),
        ("name: own\nseed: ${nope}\n", "seed: Interpolation key 'nope' not found"),
        ("name: own\ntaxonomy: {dimensions: {scenrio: null}}\n", "did you mean scenario?"),
        ("name: own\nmodels: {solver: {vllm: {args: --x}}}\n", "models.solver.vllm.args is '--x', but wants a list"),
        ("name: own\nprices: {m: {inptu: 1}}\n", "unknown key prices.m.inptu; did you mean prices.m.input"),
    ],
)
def test_a_mistake_in_the_file_is_one_or_two_lines_that_say_what_and_where(write, body, message, capfd):
    path = write(body)
    with pytest.raises(RecipeError, match=message) as caught:
        compose(path)
    assert str(caught.value).startswith(f"recipe {path.removesuffix('.yaml')}")
    assert str(caught.value).count("\n") <= 1
    assert capfd.readouterr() == ("", "")


def test_a_file_without_the_header_says_which_line_is_missing(write):
    with pytest.raises(RecipeError, match="its first line must be `# @package _global_`"):
        compose(write("name: own\n", header=""))


def test_other_files_are_refused_by_name(write, tmp_path):
    with pytest.raises(RecipeError, match=r"ends in \.yaml"):
        compose(write("name: own\n", "mine.yml"))
    with pytest.raises(RecipeError, match="no such file"):
        compose(str(tmp_path / "none.yaml"))
    (tmp_path / "latin.yaml").write_bytes(b"# @package _global_\nname: caf\xe9\n")
    with pytest.raises(RecipeError, match="not UTF-8"):
        compose(str(tmp_path / "latin.yaml"))
