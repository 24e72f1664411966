"""What the lab's sub-commands do, by subject: functions of the parsed arguments that return an exit status."""
