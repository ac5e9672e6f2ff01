import PushRecords

/// Only what ends is dismissed.
func updateWithDismissal() {
    #if MISUSE
        var update = LiveActivityUpdate(contentState: [:], timestamp: 1_790_000_000)
        // error: value of type 'LiveActivityUpdate' has no member 'dismissal'
        update.dismissal = .immediately
    #else
        var end = LiveActivityEnd(contentState: [:], timestamp: 1_790_000_000)
        end.dismissal = .immediately
    #endif
}
