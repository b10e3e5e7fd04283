"""Which program Map calls once a path is set in Options > Processing > Providers > polyad."""

import session

application, provider = session.start()
from processing.core.ProcessingConfig import ProcessingConfig  # noqa: E402 - there since start()

given = session.GIVEN
groups = ProcessingConfig.getSettings()
ProcessingConfig.setSettingValue("POLYAD_COMMAND", given["program"])
run = session.algorithm("map").create()
parameters = {"MODEL": given["model"], "SCENE": given["scene"], "OUTPUT": "map.tif"}
prepared = run.prepare(parameters, session.context(), session.Feedback())
ProcessingConfig.setSettingValue("POLYAD_COMMAND", "")  # it is kept in the profile
session.tell(
    prepared=prepared,
    program=run.command[0],
    settings=[setting.name for setting in groups["polyad"]],
)
