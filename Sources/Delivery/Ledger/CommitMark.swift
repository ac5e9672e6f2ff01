/// What one commit of a partition is known by when it is read back.
struct CommitMark: Equatable {
    /// Commits without an answer that are remembered.
    static let unconfirmedLimit = 64

    var offset: Int64
    var hash: UInt64
    /// The reach it named; `.none`: none, or not ours.
    var reach: ReachEnd

    init(offset: Int64, metadata: UnsafeRawBufferPointer, reach: ReachEnd) {
        self.offset = offset
        hash = BytesHash.hash(metadata, seed: 0)
        self.reach = reach
    }

    func isOf(_ offset: Int64, _ metadata: UnsafeRawBufferPointer) -> Bool {
        self.offset == offset && hash == BytesHash.hash(metadata, seed: 0)
    }
}
