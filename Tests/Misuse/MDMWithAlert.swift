import PushRecords

/// "This is the complete message."
func mDMWithAlert() {
    var payload = MDMPayload(pushMagic: "PushMagicValue")
    #if MISUSE
        // error: value of type 'MDMPayload' has no member 'body'
        payload.body = "News"
    #else
        payload.pushMagic = "OtherMagic"
    #endif
}
