/// What one commit of a partition said: enough to know it again when it is read back.
struct CommitText: Equatable {
    /// Commits without an answer that are remembered.
    static let unsureLimit = 64

    var offset: Int64
    var hash: UInt64
    /// The reach it named; `.none`: none, or not ours.
    var reach: ReachEnd

    init(offset: Int64, metadata: UnsafeRawBufferPointer, reach: ReachEnd) {
        self.offset = offset
        hash = BytesHash.hash(metadata, seed: 0)
        self.reach = reach
    }

    func says(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> Bool {
        self.offset == offset && hash == BytesHash.hash(metadata, seed: 0)
    }
}
