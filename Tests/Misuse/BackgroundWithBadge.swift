import PushRecords

/// What sets a badge is an alert.
func backgroundWithBadge() {
    #if MISUSE
        var payload = BackgroundPayload()
        // error: value of type 'BackgroundPayload' has no member 'badge'
        payload.badge = 3
    #else
        var payload = AlertPayload()
        payload.badge = 3
    #endif
}
