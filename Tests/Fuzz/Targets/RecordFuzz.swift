import PushRecords

func fuzzRecord(_ bytes: UnsafeRawBufferPointer, role: RecordRole) {
    let pieces = Pieces(bytes)
    defer { withExtendedLifetime(pieces) {} }
    let record = pieces.record
    var parser = RequestParser(copyHeaders: ["apns-topic", "tenant"])
    let request = record.headers.withUnsafeBufferPointer {
        parser.parse(key: record.key, value: record.value, headers: $0, role: role)
    }
    check(request, role)
}

func fuzzEnvelope(_ bytes: UnsafeRawBufferPointer) {
    var parser = RequestParser()
    check(
        parser.parse(key: .nothing, value: bytes, headers: UnsafeBufferPointer(start: nil, count: 0), role: .request),
        .request)
}

/// Checks the rules that hold for the parsed form of any record.
private func check(_ request: ParsedRequest, _ role: RecordRole) {
    require(
        (request.target == .none) == (request.deadLetter != nil),
        "a record must lack a target exactly if it is a dead letter")
    require(
        request.isInvalid || request.deadLetter != nil || request.detail.isEmpty,
        "only an invalid request or a dead letter may have a detail")
    for range in [
        request.token, request.tokenList, request.channelID, request.payload, request.headers.topic,
        request.headers.collapseID, request.app, request.key, request.detail.subject,
    ] { touch(range) }
    let copied = touch(request.copiedHeaders)
    require(request.copiedHeaders.count <= RecordLimits.copiedHeaders, "the number of copied headers must be limited")
    require(copied <= RecordLimits.copiedBytes, "the bytes of copied headers must be limited")
    if let retry = request.retry {
        require(role == .retry, "only records of retry topics may have retry headers")
        touch(retry.request.topic)
        touch(retry.reason)
    }
    guard request.deadLetter == nil else { return }
    require(role == .request || request.retry != nil, "a retry record without its headers must be a dead letter")
    require(
        request.tokenCount > 0 && request.tokenCount <= RequestParser.tokenLimit,
        "the number of tokens must be positive and limited")
    if request.target == .devices {
        withUnsafeTemporaryAllocation(byteCount: DeviceToken.textLimit, alignment: 8) { buffer in
            var cursor = TokenCursor()
            var count = 0
            while let token = cursor.next(in: request.tokenList, into: buffer) {
                require(token.count <= DeviceToken.textLimit, "the text of a token must be limited")
                count += 1
            }
            require(count == request.tokenCount, "the cursor must read as many tokens as the parser counted")
        }
    }
    guard !request.isInvalid else { return }
    require(request.payload.count >= 2, "a payload must have at least two bytes")
    require(request.payload.count <= RequestParser.largePayloadLimit, "the size of a payload must be limited")
    for text in [request.headers.topic, request.channelID, request.headers.collapseID] {
        require(
            text.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "text that becomes an HTTP/2 header must be printable ASCII")
    }
}

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
