"""Whether the intervals that models give with their numbers hold what they say."""
