// Exchanges data among all ranks by NCCL, and ends all of them on an error or a timeout.
#include <truestep/gpu/nccl.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <truestep/gpu/cuda_device_stream.hpp>
#include <truestep/gpu/stream_communicator.hpp>

#include "nccl_device_slots.hpp"

extern char** environ; // NOLINT(readability-redundant-declaration)

namespace truestep::gpu {

namespace {

using Clock = std::chrono::steady_clock;

class NcclCommunicator final : public Communicator {
  public:
    NcclCommunicator(Communicator& ranks, const CudaStream& stream, const NcclOptions& options)
        : ranks_(ranks), options_(options), shared_(stream), compute_(stream), beside_(compute_.beside()) {
        nccl::refuse_shared_devices(distributed::gather_records(ranks_, nccl::seat_of(shared_.device())));
        ncclUniqueId mine{};
        if (rank() == 0)
            check(ncclGetUniqueId(&mine), "making an identity for the ranks");
        const ncclUniqueId id = distributed::gather_records(ranks_, mine).front();
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0; // a rank that never comes must not block the others
        check(ncclCommInitRankConfig(&main_.get(), size(), id, rank(), &config), "joining the ranks");
        settle(main_.get(), "joining the ranks");
        check(ncclCommSplit(main_.get(), 0, rank(), &masks_.get(), &config),
              "making a second communicator");
        settle(main_.get(), "making a second communicator");
        settle(masks_.get(), "making a second communicator");
        shared_.watch([this](Clock::duration waited) { look_after(waited); });
    }
    NcclCommunicator(const NcclCommunicator&) = delete;
    NcclCommunicator& operator=(const NcclCommunicator&) = delete;
    /// A failing rank does not wait for the others, and others do not wait for it.
    ~NcclCommunicator() override {
        shared_.watch({});
        for (nccl::Comm* comm : {&masks_, &main_}) {
            if (std::uncaught_exceptions() > exceptions_)
                comm->end();
            comm->finish(options_.timeout, [this] { return failed(); });
        }
    }

    [[nodiscard]] int rank() const override { return ranks_.rank(); }
    [[nodiscard]] int size() const override { return ranks_.size(); }
    [[nodiscard]] std::string name() const override { return "nccl"; }
    [[nodiscard]] bool host_can_read(Traffic traffic) const override { return !is_of_device(traffic); }
    void progress() override { look_after({}); }
    void abort(const std::string& reason) noexcept override {
        masks_.end();
        main_.end();
        ranks_.abort(reason);
    }

    std::unique_ptr<distributed::Exchange> start_all_to_all(Traffic traffic, const void* send,
                                                            Sizes send_sizes, void* receive,
                                                            Sizes receive_sizes) override {
        if (!is_of_device(traffic))
            return ranks_.start_all_to_all(traffic, send, send_sizes, receive, receive_sizes);
        return all_to_all(traffic, send, send_sizes, {}, receive, receive_sizes);
    }

    std::unique_ptr<distributed::Exchange> start_all_to_owners(Traffic traffic, const void* send,
                                                               Sizes sizes, distributed::Piece piece,
                                                               void* receive) override {
        if (!is_of_device(traffic))
            return ranks_.start_all_to_owners(traffic, send, sizes, piece, receive);
        const std::vector<std::size_t> received(sizes.size(), piece.size_in(sizes[index(rank())]));
        return all_to_all(traffic, send, sizes, piece, receive, received);
    }
    [[nodiscard]] bool sends_pieces() const override { return true; }

    std::unique_ptr<distributed::Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                                           void* receive, Stretches from) override {
        if (!is_of_device(traffic))
            return ranks_.start_stretches(traffic, send, to, receive, from);
        return exchange(traffic, [&](nccl::Group& group, ncclComm_t comm, const CudaDeviceStream& on,
                                     cudaStream_t stream) {
            for (int peer = 0; peer < size(); ++peer) {
                const auto [sent_at, sent] = to[index(peer)];
                const auto [received_at, received] = from[index(peer)];
                transfer(group, comm, on, stream, peer, static_cast<const std::byte*>(send) + sent_at, sent,
                         static_cast<std::byte*>(receive) + received_at, received);
            }
        });
    }

    std::unique_ptr<distributed::Exchange> start_all_gather(Traffic traffic, const void* send,
                                                            void* receive, Sizes sizes) override {
        if (!is_of_device(traffic))
            return ranks_.start_all_gather(traffic, send, receive, sizes);
        return exchange(traffic, [&](nccl::Group& group, ncclComm_t comm, const CudaDeviceStream&,
                                     cudaStream_t stream) {
            if (all_equal(sizes)) {
                group.tell(ncclAllGather(send, receive, sizes.front(), ncclUint8, comm, stream),
                           "gathering");
                return;
            }
            auto* to = static_cast<std::byte*>(receive);
            for (int root = 0; root < size(); ++root) {
                if (sizes[index(root)] > 0)
                    group.tell(ncclBroadcast(root == rank() ? send : to, to, sizes[index(root)], ncclUint8,
                                             root, comm, stream),
                               "gathering");
                to += sizes[index(root)];
            }
        });
    }

    std::unique_ptr<distributed::Exchange> start_reduce_scatter(Traffic traffic, const float* send,
                                                                float* receive, Sizes sizes) override {
        if (!is_of_device(traffic))
            return ranks_.start_reduce_scatter(traffic, send, receive, sizes);
        return exchange(traffic, [&](nccl::Group& group, ncclComm_t comm, const CudaDeviceStream&,
                                     cudaStream_t stream) {
            if (all_equal(sizes)) {
                group.tell(ncclReduceScatter(send, receive, sizes.front() / sizeof(float), ncclFloat32,
                                             ncclSum, comm, stream),
                           "adding");
                return;
            }
            const float* from = send;
            for (int root = 0; root < size(); ++root) {
                const std::size_t count = sizes[index(root)] / sizeof(float);
                if (count > 0)
                    group.tell(ncclReduce(from, receive, count, ncclFloat32, ncclSum, root, comm, stream),
                               "adding");
                from += count;
            }
        });
    }

  private:
    /// The exchange is already on its stream; waiting makes the compute stream come after it.
    class Started final : public distributed::Exchange {
      public:
        Started(CudaDeviceStream compute, CudaDeviceStream::Event done)
            : compute_(std::move(compute)), done_(std::move(done)) {}
        Started(const Started&) = delete;
        Started& operator=(const Started&) = delete;
        /// Dropping it frees memory that is still to be written.
        ~Started() override {
            try {
                wait();
            } catch (...) { // NOLINT(bugprone-empty-catch): the device's error is reported elsewhere
            }
        }
        void wait() override {
            if (done_)
                compute_.wait(std::exchange(done_, nullptr));
        }

      private:
        CudaDeviceStream compute_;
        CudaDeviceStream::Event done_;
    };

    static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
    static bool all_equal(Sizes sizes) {
        return std::ranges::all_of(sizes, [&](std::size_t size) { return size == sizes.front(); });
    }

    /// Exchanges bytes with a peer, as they are, whatever they stand for.
    void transfer(nccl::Group& group, ncclComm_t comm, const CudaDeviceStream& on, cudaStream_t stream,
                  int peer, const std::byte* from, std::size_t sent, std::byte* to,
                  std::size_t received) const {
        if (peer == rank()) {
            on.copy(to, from, sent);
            return;
        }
        if (sent > 0)
            group.tell(ncclSend(from, sent, ncclUint8, peer, comm, stream), "sending");
        if (received > 0)
            group.tell(ncclRecv(to, received, ncclUint8, peer, comm, stream), "receiving");
    }

    std::unique_ptr<distributed::Exchange> all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                                      distributed::Piece piece, void* receive,
                                                      Sizes receive_sizes) {
        return exchange(traffic, [&](nccl::Group& group, ncclComm_t comm, const CudaDeviceStream& on,
                                     cudaStream_t stream) {
            const auto* part = static_cast<const std::byte*>(send);
            auto* to = static_cast<std::byte*>(receive);
            for (int peer = 0; peer < size(); ++peer) {
                const std::byte* const from = part + piece.begin_in(send_sizes[index(peer)]);
                const std::size_t sent = piece.size_in(send_sizes[index(peer)]);
                const std::size_t received = receive_sizes[index(peer)];
                transfer(group, comm, on, stream, peer, from, sent, to, received);
                part += send_sizes[index(peer)];
                to += received;
            }
        });
    }

    template <class Work>
    std::unique_ptr<distributed::Exchange> exchange(Traffic traffic, const Work& work) {
        const bool aside = traffic == Traffic::mask;
        const CudaDeviceStream& on = aside ? beside_ : compute_;
        auto* const comm = (aside ? masks_ : main_).get();
        if (comm == nullptr)
            throw distributed::Aborted("rank " + std::to_string(rank()) + ": NCCL has been ended");
        if (aside)
            beside_.wait(compute_.record());
        auto* const stream = on.state().at_once();
        nccl::Group group;
        work(group, comm, on, stream);
        const auto [result, what] = group.end();
        check(result, what);
        settle(comm, "starting an exchange");
        return std::make_unique<Started>(compute_, aside ? beside_.record() : nullptr);
    }

    void check(ncclResult_t result, const char* what) {
        if (result != ncclSuccess && result != ncclInProgress)
            fail(std::string(what) + ": " + ncclGetErrorString(result));
    }

    [[noreturn]] void fail(const std::string& what) {
        const std::string text = "rank " + std::to_string(rank()) + ": NCCL: " + what;
        abort(text);
        throw distributed::Aborted(text);
    }

    /// Polls until the library has finished, or a rank has failed.
    void settle(ncclComm_t comm, const char* what) {
        const auto begin = Clock::now();
        for (;;) {
            ncclResult_t state = ncclSuccess;
            check(ncclCommGetAsyncError(comm, &state), what);
            check(state, what);
            if (state == ncclSuccess)
                return;
            look_at_ranks();
            refuse_delay(Clock::now() - begin, what);
        }
    }

    /// Runs while the host waits for the stream.
    void look_after(Clock::duration waited) {
        for (nccl::Comm* comm : {&main_, &masks_}) {
            if (comm->get() == nullptr)
                continue;
            ncclResult_t state = ncclSuccess;
            check(ncclCommGetAsyncError(comm->get(), &state), "an exchange");
            check(state, "an exchange");
        }
        look_at_ranks();
        refuse_delay(waited, "an exchange");
    }

    /// If a rank has failed, device work that waits for it would wait for ever.
    void look_at_ranks() {
        try {
            ranks_.progress();
        } catch (...) {
            masks_.end();
            main_.end();
            throw;
        }
    }

    bool failed() noexcept {
        try {
            ranks_.progress();
            return false;
        } catch (...) {
            return true;
        }
    }

    void refuse_delay(Clock::duration waited, const char* what) {
        if (waited >= options_.timeout)
            fail(std::string(what) + " did not end within " + nccl::seconds_text(options_.timeout));
    }

    Communicator& ranks_;
    NcclOptions options_;
    CudaStream shared_;
    CudaDeviceStream compute_;
    CudaDeviceStream beside_;
    nccl::Comm main_;
    nccl::Comm masks_;
    int exceptions_ = std::uncaught_exceptions();
};

/// The NCCL variables that are set in the environment.
std::string settings() {
    std::string text;
    for (char** variable = environ; *variable != nullptr; ++variable)
        if (std::strncmp(*variable, "NCCL_", 5) == 0)
            text += std::string(text.empty() ? "" : " ") + *variable;
    return text.empty() ? "its own choice of algorithm and protocol" : text;
}

std::string topology() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
        return "no device";
    int pairs = 0;
    int direct = 0;
    for (int one = 0; one < devices; ++one)
        for (int other = 0; other < devices; ++other) {
            int access = 0;
            if (one == other || cudaDeviceCanAccessPeer(&access, one, other) != cudaSuccess)
                continue;
            ++pairs;
            direct += access;
        }
    cudaDeviceProp properties{};
    static_cast<void>(cudaGetDeviceProperties(&properties, 0));
    return std::to_string(devices) + " x " + properties.name +
           (pairs == 0 ? ""
                       : ", " + std::to_string(direct) + " of " + std::to_string(pairs) +
                             " ordered pairs reach each other's memory");
}

} // namespace

std::unique_ptr<distributed::Communicator> make_nccl_communicator(distributed::Communicator& ranks,
                                                                  const CudaStream& stream,
                                                                  const NcclOptions& options) {
    return std::make_unique<NcclCommunicator>(ranks, stream, options);
}

std::string nccl_description() {
    int version = 0;
    static_cast<void>(ncclGetVersion(&version));
    constexpr int thousand = 1000;
    constexpr int hundred = 100;
    return "NCCL " + std::to_string(version / (10 * thousand)) + "." +
           std::to_string(version / hundred % hundred) + "." + std::to_string(version % hundred) + ", " +
           settings() + "; " + topology();
}

} // namespace truestep::gpu
