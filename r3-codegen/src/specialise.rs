//! Constants for arguments and launch dimensions, facts about pointers, counts for loops.
