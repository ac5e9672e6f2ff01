import PushRecords

func fuzzResult(_ bytes: UnsafeRawBufferPointer) {
    // The bytes are copied to an array, as a consumer of results does.
    guard let result = try? DeliveryResult(json: Array(bytes)) else { return }
    _ = result.hashValue
    _ = result.request.description
    _ = DeliveryResult.Request(text: result.request.description)
}

func fuzzDeadToken(_ bytes: UnsafeRawBufferPointer) {
    guard let token = try? UnregisteredToken(json: Array(bytes)) else { return }
    _ = token.isDead(registeredAtMs: .min)
    _ = token.hashValue
}

func fuzzDeadLetter(_ bytes: UnsafeRawBufferPointer) {
    let pieces = Pieces(bytes)
    defer { withExtendedLifetime(pieces) {} }
    let record = pieces.record
    let headers = record.headers.map {
        HeaderField(String(decoding: $0.name, as: UTF8.self), Array($0.value))
    }
    guard let letter = try? DeadLetter(key: Array(record.key), value: Array(record.value), headers: headers) else {
        return
    }
    require(
        !letter.headers.contains { $0.name.hasPrefix("push-dlq-") },
        "a dead letter must not contain the headers that the worker added")
    _ = letter.place
}
