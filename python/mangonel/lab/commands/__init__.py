"""The lab's sub-commands by subject: functions of the parsed arguments that return an exit status."""
