import PushRecords

/// What interrupts nobody has no level of interruption.
func backgroundWithInterruptionLevel() {
    #if MISUSE
        var payload = BackgroundPayload()
        // error: value of type 'BackgroundPayload' has no member 'interruptionLevel'
        payload.interruptionLevel = .passive
    #else
        var payload = AlertPayload(body: "News")
        payload.interruptionLevel = .passive
    #endif
}
