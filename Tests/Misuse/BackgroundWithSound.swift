import PushRecords

/// What plays something is an alert.
func backgroundWithSound() {
    #if MISUSE
        var payload = BackgroundPayload()
        // error: value of type 'BackgroundPayload' has no member 'sound'
        payload.sound = .standard
    #else
        var payload = AlertPayload()
        payload.sound = .standard
    #endif
}
