"""What can be asked of a long text: one task a file, all of them data of this project's own."""
