/// Where a partition is to be read from.
package enum ReadingStart: Equatable, Sendable {
    package enum Cause: Equatable, Sendable {
        /// The group has committed nothing.
        case nothingCommitted
        /// No log has such an offset: somebody else wrote it.
        case notBelievable
        /// The log ends below what was committed: it was made anew, or cut.
        case beyondEnd
        /// The log begins above what was committed: retention was quicker.
        case overtaken
    }

    case at(Int64)
    case beginning(because: Cause)
}
