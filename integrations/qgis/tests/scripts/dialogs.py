"""What QGIS makes of the tables of the dialogs."""

import session

application, provider = session.start()
found = {}
for algorithm in provider.algorithms():
    rows = algorithm.dialog.options
    found[algorithm.name()] = {
        "help": algorithm.shortHelpString(),
        "parameters": [p.name() for p in algorithm.parameterDefinitions()],
        "rows": [row.name for row in rows if row.kind != "layer"],
    }
session.tell(**found)
