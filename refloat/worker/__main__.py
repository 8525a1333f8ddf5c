"""`python -m refloat.worker`."""

import gc

gc.disable()  # nothing that an import makes is garbage; `main` enables it when all is loaded

from refloat.worker.main import main  # noqa: E402

main()
