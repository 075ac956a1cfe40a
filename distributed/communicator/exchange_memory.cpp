// The memory of exchanges, kept from one step to the next.
#include <array>
#include <cstddef>
#include <new>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_exchanges = false; // so that the sanitizer sees any use of an exchange that is gone
#else
constexpr bool keeps_exchanges = true;
#endif

constexpr std::size_t exchange_unit = 64;
constexpr std::size_t most_exchange_units = 16;

struct KeptMemory {
    KeptMemory* next;
};

// Neither has a destructor: an optimizer of static storage destroys its exchanges after the
// thread's own objects are gone.
thread_local std::array<KeptMemory*, most_exchange_units + 1> kept_memory{}; // by units
thread_local bool keeps_no_exchanges = false;

struct LetGoAtTheEnd {
    LetGoAtTheEnd() = default;
    LetGoAtTheEnd(const LetGoAtTheEnd&) = delete;
    LetGoAtTheEnd& operator=(const LetGoAtTheEnd&) = delete;
    ~LetGoAtTheEnd() {
        keeps_no_exchanges = true;
        for (KeptMemory*& first : kept_memory)
            while (first != nullptr) {
                KeptMemory* const next = first->next;
                ::operator delete(first);
                first = next;
            }
    }
};

std::size_t units_of(std::size_t bytes) {
    return (bytes + exchange_unit - 1) / exchange_unit;
}

} // namespace

// NOLINTNEXTLINE(misc-new-delete-overloads,cert-dcl54-cpp)
void* Exchange::operator new(std::size_t bytes) {
    const std::size_t units = units_of(bytes);
    if (keeps_exchanges && units <= most_exchange_units && kept_memory[units] != nullptr) {
        KeptMemory* const memory = kept_memory[units];
        kept_memory[units] = memory->next;
        return memory;
    }
    return ::operator new(units* exchange_unit);
}

void Exchange::operator delete(void* memory, std::size_t bytes) noexcept {
    const std::size_t units = units_of(bytes);
    if (!keeps_exchanges || keeps_no_exchanges || units > most_exchange_units) {
        ::operator delete(memory);
        return;
    }
    thread_local LetGoAtTheEnd let_go;
    kept_memory[units] = new (memory) KeptMemory{kept_memory[units]};
}

} // namespace truestep::distributed
