/// Where a reach ends: all of the offsets below the last one of it, and of that one some indexes, or all.
package struct ReachEnd: Equatable, Comparable, Sendable {
    /// One past the last offset; 0: none.
    package var offset: Int64
    /// Of the last offset, only indexes below it; `.max`: all.
    package var indexes: Int32

    package init(_ offset: Int64, indexes: Int32 = .max) {
        self.offset = offset
        self.indexes = indexes
    }

    /// Nothing.
    package static let none = ReachEnd(0)

    @inline(__always)
    package static func < (left: ReachEnd, right: ReachEnd) -> Bool {
        left.offset < right.offset || left.offset == right.offset && left.indexes < right.indexes
    }

    /// Of the record at `offset`, indexes below it.
    package func indexes(at offset: Int64) -> Int32 {
        if offset >= self.offset { return 0 }
        return offset == self.offset - 1 ? indexes : .max
    }

    /// No further than `offset`, which is one past the last.
    package func cut(at offset: Int64) -> ReachEnd { min(self, ReachEnd(offset)) }
}
