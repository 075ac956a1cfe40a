// Stands in for a tool of NVIDIA's: NVTX loads it by NVTX_INJECTION64_PATH, and it writes how often each
// range began and how many ended to the file that TRUESTEP_NVTX_COUNTS names.
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include <nvtx3/nvToolsExt.h>

namespace {

struct Counts {
    std::mutex mutex{};
    std::map<std::string, int> begun{};
    int ended = 0;

    ~Counts() {
        std::ofstream file(std::getenv("TRUESTEP_NVTX_COUNTS"));
        for (const auto& [name, count] : begun)
            file << count << ' ' << name << '\n';
        file << ended << " ended\n";
    }
} counts;

int NVTX_API push(const char* name) {
    const std::lock_guard lock(counts.mutex);
    return ++counts.begun[name];
}

int NVTX_API pop() {
    const std::lock_guard lock(counts.mutex);
    return ++counts.ended;
}

} // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t tables) {
    const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable core = nullptr;
    unsigned size = 0;
    if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) == 0 ||
        size <= NVTX_CBID_CORE_RangePop)
        return 0;
    *core[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(push);
    *core[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
    return 1;
}
