"""`python -m refloat.prep.trial`."""

import gc

gc.disable()  # nothing that an import makes is garbage; `main` enables it

from refloat.prep.trial.program import main  # noqa: E402

main()
