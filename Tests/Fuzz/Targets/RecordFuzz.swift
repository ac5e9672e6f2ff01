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
    let pieces = Pieces()
    defer { withExtendedLifetime(pieces) {} }
    var parser = RequestParser()
    let request = parser.parse(
        key: .nothing, value: pieces.copy(bytes), headers: UnsafeBufferPointer(start: nil, count: 0), role: .request)
    check(request, .request)
}

/// What the parser promises of any record.
private func check(_ request: ParsedRequest, _ role: RecordRole) {
    require((request.target == .none) == (request.deadLetter != nil), "what has no target is a dead letter")
    require(request.isInvalid || request.deadLetter != nil || request.detail.isEmpty, "a detail says what is wrong")
    for range in [
        request.token, request.tokenList, request.channelID, request.payload, request.headers.topic,
        request.headers.collapseID, request.app, request.key, request.detail.subject,
    ] { touch(range) }
    var copied = 0
    for header in request.copiedHeaders {
        touch(header.name)
        touch(header.value)
        copied += header.name.count + header.value.count
    }
    require(request.copiedHeaders.count <= RecordLimits.copiedHeaders, "copied headers are limited")
    require(copied <= RecordLimits.copiedBytes, "the bytes of copied headers are limited")
    if let retry = request.retry {
        require(role == .retry, "retry headers count in retry topics only")
        touch(retry.request.topic)
        touch(retry.reason)
    }
    guard request.deadLetter == nil else { return }
    require(role == .request || request.retry != nil, "a retry record has its headers, or is a dead letter")
    require(request.tokenCount > 0 && request.tokenCount <= RequestParser.tokenLimit, "tokens are limited")
    if request.target == .devices {
        withUnsafeTemporaryAllocation(byteCount: DeviceToken.textLimit, alignment: 8) { buffer in
            var cursor = TokenCursor()
            var count = 0
            while let token = cursor.next(in: request.tokenList, into: buffer) {
                require(token.count <= DeviceToken.textLimit, "a token's text is limited")
                count += 1
            }
            require(count == request.tokenCount, "the cursor reads as many tokens as were counted")
        }
    }
    guard !request.isInvalid else { return }
    require(request.payload.count >= 2, "a payload is an object")
    require(request.payload.count <= RequestParser.largePayloadLimit, "a payload is limited")
    for text in [request.headers.topic, request.channelID, request.headers.collapseID] {
        require(text.allSatisfy { $0 >= 0x20 && $0 < 0x7F }, "what becomes a header is printable ASCII")
    }
}
