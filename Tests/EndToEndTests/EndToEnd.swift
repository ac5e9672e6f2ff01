import Testing

/// The built worker as a process, between a real broker and a real server, with producers that are not ours. Two rows of
/// tests side by side, in each one after the other: those that load the machine, and those that mostly wait.
@Suite enum EndToEnd {
    /// What becomes of notifications, at load, through faults and restarts; each run ends in the audit of three books.
    @Suite(.serialized) enum Deliveries {}

    /// Commands, pages, reloads, and what is said of a wrong start.
    @Suite(.serialized) enum Commands {}
}
