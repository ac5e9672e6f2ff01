import PushRecords

/// "Using priority 10 is an error."
func backgroundAtOnce() {
    var notification = PushNotification(BackgroundPayload())
    #if MISUSE
        // error: (aka 'Optional<BackgroundPriority>') has no member 'immediate'
        notification.priority = .immediate
    #else
        notification.priority = .powerConsiderate
    #endif
}
