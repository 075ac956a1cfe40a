#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include <truestep/gpu/exchange.hpp>
#include <truestep/gpu/host_stream.hpp>

namespace truestep::gpu {

/// The machine of the host's form: the host's memory, and a stream whose work is done late.
class HostMachine {
  public:
    HostMachine(HostStream stream, Exchange exchange) : stream_(std::move(stream)), exchange_(exchange) {}

    template <class T>
    class Vector {
      public:
        [[nodiscard]] T* data() const { return memory_.get(); }
        [[nodiscard]] Index size() const { return size_; }
        void swap(Vector& other) {
            memory_.swap(other.memory_);
            std::swap(size_, other.size_);
        }

      private:
        friend HostMachine;
        std::shared_ptr<T[]> memory_; // NOLINT(modernize-avoid-c-arrays): to the byte, for the sanitizers
        Index size_ = 0;
    };

    /// Loses the contents. Until memory is written, it holds nonsense.
    template <class T>
    void resize(Vector<T>& vector, Index size) {
        if (vector.memory_)
            stream_.let_go(std::move(vector.memory_));
        vector.memory_ = size == 0 ? nullptr : allocated<T>(static_cast<std::size_t>(size));
        vector.size_ = size;
    }

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        if (blocks > 0)
            stream_.run<Algorithm>(blocks, arguments);
    }

    /// Puts work on the stream that is not a block's, such as a library's.
    void call(host_form::Queue::Work work) { stream_.call(std::move(work)); }

    template <class V>
    void fill(V& vector, int byte) {
        fill_bytes(vector.data(), byte, static_cast<std::size_t>(vector.size()) * sizeof *vector.data());
    }
    void fill_bytes(void* begin, int byte, std::size_t bytes) { stream_.fill(begin, byte, bytes); }

    /// The source may go when this returns.
    template <class T>
    void upload(T* to, const T* from, Index size) {
        if (size == 0)
            return;
        const auto staged = std::make_shared<std::vector<T>>(from, from + size);
        stream_.copy(to, staged->data(), staged->size() * sizeof(T));
        stream_.let_go(staged);
    }
    /// The data is there when finish() has returned.
    template <class T>
    void fetch(T* to, const T* from, Index size) {
        stream_.copy(to, from, static_cast<std::size_t>(size) * sizeof(T));
    }
    /// Waits for the copy, and for all launches before it.
    template <class T>
    void download(T* to, const T* from, Index size) {
        fetch(to, from, size);
        finish();
    }
    const float* gradient(const float* given, Index) { return given; }
    const float* gradient_in(const float* given, Index, std::span<const problem::Range>) { return given; }
    template <class V>
    void exchange(V&) {}
    void hand_over() {
        if (exchange_ == Exchange::host)
            finish();
    }
    void finish() { stream_.synchronize(); }

  private:
    /// Allocates aligned memory, as a device does. Who writes behind its end is found out when it goes;
    /// sanitizers find readers, too, and get no guard, so that they do to the byte.
    template <class T>
    static std::shared_ptr<T[]> allocated(std::size_t size) { // NOLINT(modernize-avoid-c-arrays)
        constexpr std::align_val_t alignment{256};
#if defined(__SANITIZE_ADDRESS__)
        constexpr std::size_t guard = 0;
#else
        constexpr std::size_t guard = 64;
#endif
        const std::size_t bytes = size * sizeof(T);
        auto* const begin = static_cast<unsigned char*>(::operator new[](bytes + guard, alignment));
        std::memset(begin, host_form::nonsense, bytes + guard);
        return {reinterpret_cast<T*>(begin), [begin, bytes](T*) {
                    if (!std::all_of(begin + bytes, begin + bytes + guard,
                                     [](unsigned char byte) { return byte == host_form::nonsense; })) {
                        std::fputs("code for devices has written behind the end of its memory\n", stderr);
                        std::abort();
                    }
                    ::operator delete[](begin, alignment);
                }};
    }

    HostStream stream_;
    Exchange exchange_;
};

} // namespace truestep::gpu
