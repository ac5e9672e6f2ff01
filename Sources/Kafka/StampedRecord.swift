/// The answer to where a log's records of some time begin.
package enum StampedRecord: Hashable, Sendable {
    /// No record of that time or later.
    case none
    case at(Int64)
}
