"""Tasks, one a file: a record becomes an `Example`, predictions become metrics. Each defines `Task`."""
