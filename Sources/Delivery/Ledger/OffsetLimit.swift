/// The highest offset that is believed. Every sum of an offset and a limit of ours stays below 2^63, so nothing that a
/// group has committed can overflow.
package enum OffsetLimit {
    package static let highest: Int64 = 1 << 62

    /// Whether an offset, as a broker or a commit tells it, can be one.
    package static func holds(_ offset: Int64) -> Bool { offset >= 0 && offset <= highest }
}
