import PushRecords

/// "Set the value for the apns-priority header field to 5 or 10."
func updateWithoutWaking() {
    var notification = PushNotification(LiveActivityUpdate(contentState: [:], timestamp: 1_790_000_000))
    #if MISUSE
        // error: (aka 'Optional<WakingPriority>') has no member 'withoutWaking'
        notification.priority = .withoutWaking
    #else
        notification.priority = .powerConsiderate
    #endif
}
