import PushRecords

/// "Set the APNs priority to 10 to request immediate delivery."
func speechThatWaits() {
    var notification = PushNotification(PushToTalkPayload(["activeSpeaker": "Ada"]))
    #if MISUSE
        // error: (aka 'Optional<ImmediatePriority>') has no member 'powerConsiderate'
        notification.priority = .powerConsiderate
    #else
        notification.priority = .immediate
    #endif
}
