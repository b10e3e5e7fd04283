"""The journeys run the polyad of the wheel, and not the tree they lie in."""

from pathlib import Path


def test_package_and_command_are_those_of_the_wheel(user, installed):
    printed = user.runs("import polyad; print(polyad.__file__)")
    assert Path(printed.strip()) == installed / "polyad" / "__init__.py"
    assert Path(user.types("command -v polyad").strip()) == installed / "bin" / "polyad"


def test_wheel_holds_the_page_and_the_scene_that_come_with_polyad(installed):
    assert (installed / "polyad" / "app" / "static" / "index.html").exists()
    assert (installed / "polyad" / "py.typed").exists()
    assert not (installed / "tests").exists()


def test_version_is_the_same_in_the_package_and_at_the_prompt(user, installed):
    (about,) = installed.glob("polyad-*.dist-info")
    assert user.types("polyad --version").strip() == about.name.removesuffix(".dist-info")[7:]
