"""Tables of many layouts and subjects, with questions and statements; see README.md."""
