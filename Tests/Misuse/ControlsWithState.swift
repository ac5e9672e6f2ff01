import PushRecords

/// A control asks for its state itself.
func controlsWithState() {
    #if MISUSE
        var payload = ControlsPayload()
        // error: value of type 'ControlsPayload' has no member 'custom'
        payload.custom["isOn"] = true
    #else
        let payload = ControlsPayload()
        _ = payload.pushType
    #endif
}
