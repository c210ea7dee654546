"""Builds the documentation: python docs/build.py [--out=FOLDER] [--no-execute] [--external].

Every warning is an error. Internal links are always checked. External links are checked only with --external, since a
machine may be offline. With --no-execute the tutorials are shown without their output.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys

from sphinx.cmd.build import main as sphinx_build

SOURCE = pathlib.Path(__file__).resolve().parent


def main(words: list[str] | None = None) -> int:
    """Returns the exit code of Sphinx: 0 where there is neither an error nor a warning."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=str(SOURCE / "_build"), help="folder of html/, doctrees/ and linkcheck/")
    parser.add_argument("--no-execute", action="store_true", help="do not run the tutorials")
    parser.add_argument("--external", action="store_true", help="ask other sites whether links to them are right")
    flags = parser.parse_args(words)
    # The tutorials' commands start the `python` of this environment.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    extensions = str(SOURCE / "extensions")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (extensions, os.environ.get("PYTHONPATH"))))
    # They compile much and compute little, as tests do.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    mode = "off" if flags.no_execute else "force"
    common = ["--fail-on-warning", "--keep-going", "--quiet", "--doctree-dir", f"{flags.out}/doctrees"]
    common += ["-D", f"nb_execution_mode={mode}", str(SOURCE)]
    code = sphinx_build(["-b", "html", *common, f"{flags.out}/html"])
    if code == 0 and flags.external:
        code = sphinx_build(["-b", "linkcheck", *common, f"{flags.out}/linkcheck"])
    if code == 0:
        print(f"documentation: {flags.out}/html/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
