internal import JSON

/// Whether librdkafka is connected to a broker, by its statistics (`brokers`, an object by broker with `state`:
/// librdkafka's manual, "Statistics"); `nil`: they do not say.
func isAnyBrokerUp(inStatistics text: String) -> Bool? {
    var text = text
    return text.withUTF8 { bytes in
        do throws(JSONError) {
            var reader = try JSONReader(UnsafeRawBufferPointer(bytes))
            try reader.enterObject()
            while let name = reader.nextMember() {
                guard name.equals("brokers") else {
                    _ = reader.skip()
                    continue
                }
                return try isAnyUp(&reader)
            }
        } catch {}
        return nil
    }
}

private func isAnyUp(_ reader: inout JSONReader) throws(JSONError) -> Bool {
    try reader.enterObject()
    while reader.nextMember() != nil {
        try reader.enterObject()
        var isUp = false
        while let name = reader.nextMember() {
            guard name.equals("state") else {
                _ = reader.skip()
                continue
            }
            let state = try reader.text()
            if state.equals("UP") || state.equals("UPDATE") { isUp = true }
        }
        if isUp { return true }
    }
    return false
}
