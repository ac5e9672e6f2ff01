/// What happened, for log and metrics: the parts of the machine write it down here, and nothing is decided by it.
struct Journal {
    var events: [DeliveryEvent] = []
    var counters: DeliveryCounters
}
