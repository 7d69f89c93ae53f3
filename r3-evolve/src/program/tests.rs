//! Programs of files, commands and archives.
