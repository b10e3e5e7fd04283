"""The journeys run the polyad of the wheel, and not the tree they lie in."""

from pathlib import Path

import pytest


def test_package_and_command_are_those_of_the_wheel(newcomer, installed):
    printed = newcomer.runs("import polyad; print(polyad.__file__)")
    assert Path(printed.strip()) == installed / "polyad" / "__init__.py"
    assert Path(newcomer.types("command -v polyad").strip()) == installed / "bin" / "polyad"


@pytest.mark.slow
def test_a_command_that_starts_warm_is_the_one_of_the_wheel_too(user, installed):
    assert user.runs("import polyad; print(polyad.__file__)").strip() == str(
        installed / "polyad" / "__init__.py"
    )


@pytest.mark.slow
def test_version_is_the_same_in_the_package_and_at_the_prompt(newcomer, installed):
    (about,) = installed.glob("polyad-*.dist-info")
    assert newcomer.types("polyad --version").strip() == about.name.removesuffix(".dist-info")[7:]


def test_wheel_holds_the_labeling_page_and_the_types_and_no_tests(installed):
    assert (installed / "polyad" / "app" / "static" / "index.html").exists()
    assert (installed / "polyad" / "py.typed").exists()
    assert not (installed / "tests").exists()
