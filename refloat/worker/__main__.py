"""`python -m refloat.worker`."""

import gc

from refloat.wire.child import import_less

gc.disable()  # nothing that an import makes is garbage; `main` enables it when all is loaded
import_less()

from refloat.worker.main import main  # noqa: E402

main()
