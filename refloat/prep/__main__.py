"""`python -m refloat.prep`."""

import gc

gc.disable()  # nothing that an import makes is garbage; `main` enables it

from refloat.prep.main import main  # noqa: E402

main()
