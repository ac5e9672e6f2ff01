import PushRecords

/// The newest update is told by its time.
func updateWithoutTimestamp() {
    #if MISUSE
        // error: missing argument for parameter 'timestamp' in call
        _ = LiveActivityUpdate(contentState: [:])
    #else
        _ = LiveActivityUpdate(contentState: [:], timestamp: 1_790_000_000)
    #endif
}
