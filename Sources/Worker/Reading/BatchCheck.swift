/// Whether the batches that librdkafka receives are looked at (`Unpacking.watch`): its calls lead there, and that sees
/// batches where records are read. A librdkafka that receives in another way than those known would show neither by
/// itself.
struct BatchCheck {
    /// Its calls lead there.
    var isSet = false
    private var isBlind = false

    var isLooking: Bool { isSet && !isBlind }

    /// - Parameters:
    ///   - hasRead: records were read since then.
    ///   - hasSeen: batches were.
    /// - Returns: true once it turns out that nothing is seen.
    mutating func isFoundBlind(hasRead: Bool, hasSeen: Bool) -> Bool {
        let before = isLooking
        isBlind = hasRead && !hasSeen
        return before && isBlind
    }
}
