"""Cancel Map at the first word of its command."""

import session

application, provider = session.start()
given = session.GIVEN
feedback = session.Feedback(cancels=True)
parameters = {"MODEL": given["model"], "SCENE": given["scene"], "OUTPUT": given["map"]}
try:
    session.algorithm("map").create().run(parameters, session.context(), feedback, {}, False)
    error = ""
except Exception as raised:
    error = str(raised)
session.tell(error=error, said=feedback.said)
