"""`python -m refloat.prep`."""

import gc

from refloat.wire.child import import_less

gc.disable()  # nothing that an import makes is garbage; `main` enables it
import_less()

from refloat.prep.main import main  # noqa: E402

main()
