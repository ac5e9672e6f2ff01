import PushRecords

/// A number from elsewhere says its unit.
func timeInMilliseconds() {
    let nowMs: Int64 = 1_790_000_000_000
    #if MISUSE
        // error: cannot convert value of type 'Int64' to expected argument type 'UnixTime'
        _ = LiveActivityUpdate(contentState: [:], timestamp: nowMs)
    #else
        _ = LiveActivityUpdate(contentState: [:], timestamp: UnixTime(secondsSinceEpoch: nowMs / 1_000))
    #endif
}
